#!/bin/bash
find site -type d -exec chmod 755 {} +
find site -type f -exec chmod 644 {} +
