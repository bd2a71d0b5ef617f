#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| firn_fuzz::round_trip::batch_round_trip(data));
