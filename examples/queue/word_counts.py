"""A Spark job that can be dropped in part: how often each word occurs in posts.

`foretell queue run` calls `word_counts` with a session that stays from job to job.
"""

import html
import re
from collections import Counter

import foretell

BODY = re.compile(r' Body="([^"]*)"')
WORD = re.compile(r"[a-z]+")
TAG = re.compile(r"<[^>]+>")


def word_counts(spark, path, partitions=5, top=1_000):
    """Count words in the posts of an XML file; return the most frequent with their bounds."""
    posts = spark.sparkContext.textFile(path, partitions)
    n = posts.getNumPartitions()
    kept = foretell.prune_partitions(posts)  # what the queue says is dropped is never read
    counts = kept.mapPartitions(count_words).groupByKey(2).mapValues(list)
    most = counts.top(top, key=lambda entry: (sum(entry[1]), entry[0]))
    return foretell.estimate_count(by_partition(most, kept.getNumPartitions()), n)


def by_partition(most, n_kept):
    """Turn the counts of each word around; which partition one is from does not matter."""
    partitions = [{} for _ in range(n_kept)]
    for word, counts in most:
        for partition, count in zip(partitions, counts, strict=False):
            partition[word] = count
    return partitions


def count_words(lines):
    """Count the words in the lines of one partition."""
    counts = Counter()
    for line in lines:
        if body := BODY.search(line):
            text = TAG.sub(" ", html.unescape(body[1]))
            counts.update(WORD.findall(text))
    return counts.items()
