#!/bin/bash
cp a.txt b.txt
