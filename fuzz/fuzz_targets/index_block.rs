#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| firn_fuzz::blocks::index_block(data));
