"""Runs of several processes or threads: a Launchpad program with a folder like any other run's."""
