"""The hindsight bound: a time that no plan of a whole run can undercut."""
