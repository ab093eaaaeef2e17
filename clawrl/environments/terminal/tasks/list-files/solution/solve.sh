#!/bin/bash
ls fruits > list.txt
