//! Files, time and threads behind traits.
