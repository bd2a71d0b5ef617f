//! Faults at every operation of a run. (being written)
