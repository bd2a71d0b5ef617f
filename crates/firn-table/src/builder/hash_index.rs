//! The hash index of key prefixes beside a binary-search index.
//!
//! Prefixes flow in with the number of the data block that holds their key; two meta blocks come out: all distinct
//! prefixes one after the other, and for each its length, its first block and its number of blocks.

use firn_format::varint::put_varint32;

#[derive(Debug, Default)]
pub(crate) struct HashIndexBuilder {
    prefixes: Vec<u8>,
    metadata: Vec<u8>,
    run: Option<Run>,
}

#[derive(Debug)]
struct Run {
    prefix: Vec<u8>,
    first_block: u32,
    last_block: u32,
}

impl HashIndexBuilder {
    /// Adds the prefix of a key in data block `block`, counted from 0.
    pub(crate) fn add(&mut self, prefix: &[u8], block: u32) {
        match &mut self.run {
            Some(run) if run.prefix == prefix => run.last_block = block,
            _ => {
                self.close_run();
                self.run = Some(Run { prefix: prefix.to_vec(), first_block: block, last_block: block });
            }
        }
    }

    fn close_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.prefixes.extend_from_slice(&run.prefix);
            put_varint32(&mut self.metadata, run.prefix.len() as u32);
            put_varint32(&mut self.metadata, run.first_block);
            put_varint32(&mut self.metadata, run.last_block - run.first_block + 1);
        }
    }

    /// The payloads of the prefixes and the metadata block.
    pub(crate) fn finish(&mut self) -> (&[u8], &[u8]) {
        self.close_run();
        (&self.prefixes, &self.metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_match_the_vector() {
        let mut builder = HashIndexBuilder::default();
        for (prefix, blocks) in [("key00000", 0..=17), ("key00001", 17..=34), ("key00002", 35..=49)] {
            for block in blocks {
                builder.add(prefix.as_bytes(), block);
                builder.add(prefix.as_bytes(), block);
            }
        }
        let (prefixes, metadata) = builder.finish();
        assert_eq!(prefixes, b"key00000key00001key00002");
        assert_eq!(metadata, [0x08, 0x00, 0x12, 0x08, 0x11, 0x12, 0x08, 0x23, 0x0f]);
    }
}
