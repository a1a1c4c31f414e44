#!/bin/sh
# Count the words of the pages in git, by folder. What the site build makes is not counted.
cd "$(dirname "$0")/.." || exit
for folder in docs/start docs/tutorials docs/how-to docs/reference docs/explanation docs/decisions docs/maintainers; do
    echo "$(git ls-files "$folder/*.md" | xargs cat | wc -w) $folder"
done
echo "$(git ls-files 'docs/*.md' | xargs cat | wc -w) docs"
