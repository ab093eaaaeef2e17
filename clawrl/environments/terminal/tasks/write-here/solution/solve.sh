#!/bin/bash
pwd > here.txt
