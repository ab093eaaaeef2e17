#!/bin/bash
grep ERROR app.log > errors.txt
