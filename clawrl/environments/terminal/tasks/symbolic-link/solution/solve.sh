#!/bin/bash
ln -s release-2 current
