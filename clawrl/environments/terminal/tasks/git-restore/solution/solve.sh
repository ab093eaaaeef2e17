#!/bin/bash
cd repo
git checkout -- config.ini
