#!/bin/bash
mv photo.jpg pictures/
