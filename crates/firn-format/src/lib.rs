//! Pure codecs: every on-disk format of RocksDB as functions of bytes.
//!
//! One module per format. Bytes flow in, meaning flows out, and back. Nothing here opens a file, starts a thread, reads a
//! clock or trusts a length field: every decoder checks what it reads and answers damaged input with
//! [`Error::corruption`](firn_error::Error::corruption), never with a panic or an allocation the input asked for.

#![forbid(unsafe_code)]

pub mod batch;
pub mod block;
pub mod checksum;
pub mod comparator;
pub mod compression;
pub mod data_block_hash;
pub mod filename;
pub mod filter;
pub mod footer;
pub mod hash;
pub mod index;
pub mod iterator;
pub mod key;
pub mod log;
pub mod options;
pub mod options_text;
pub mod properties;
pub mod protection;
pub mod range_tombstone;
pub mod seqno_time;
pub mod slice_transform;
pub mod unique_id;
pub mod varint;
pub mod version_edit;

pub use firn_error::{Error, Result};
