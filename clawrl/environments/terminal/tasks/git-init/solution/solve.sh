#!/bin/bash
git init -q project
