#!/bin/bash
echo milk >> shopping.txt
