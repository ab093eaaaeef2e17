#!/bin/bash
set -e
mkdir -p site/css site/js/lib
echo a > site/index.html
echo b > site/css/style.css
echo c > site/js/lib/x.js
chmod 600 site/index.html
chmod 777 site/css/style.css
chmod 755 site/js/lib/x.js
chmod 700 site/css site/js/lib
chmod 777 site
