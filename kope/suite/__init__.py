"""Whole suites: run many tasks, keep what came of each, compare systems. One task is the loop's business."""
