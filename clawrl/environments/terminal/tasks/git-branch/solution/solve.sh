#!/bin/bash
cd repo
git branch feature
