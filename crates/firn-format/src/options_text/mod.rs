//! The text of options: OPTIONS files, option strings and lists, escapes.
//!
//! [`parse_map`] and [`split_list`] read the nested `name=value;...` and `a:b` forms; [`OptionsFile`] reads and prints whole
//! OPTIONS files. Text flows in and becomes names with raw values, still escaped as they stood; what a name means is decided
//! by [`crate::options`]. Always true here: only the depth of braces is looked into, and no input panics.

mod file;
mod map;

pub use file::{OptionsFile, OptionsFileVersion, OptionsSection, SectionKind};
pub use map::{
    braces_match, escape, escape_line, escape_value, is_blank, join_list, parse_map, split_list, strip_braces, trim,
    unescape,
};

#[cfg(test)]
mod tests;
