//! Vectors of real blocks, round trips and damaged input.

use super::*;
use proptest::prelude::*;

fn unhex(text: &str) -> Vec<u8> {
    let text: String = text.split_whitespace().collect();
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// The raw block of the vectors: one entry, `a` -> 120 times `x`.
fn raw_block() -> Vec<u8> {
    let mut raw = unhex("000978 61 0100000000000000");
    raw.extend([b'x'; 120]);
    raw.extend(unhex("00000000 01000000"));
    raw
}

const BZIP2: &str =
    "425a68313141592653598882b51300000641806820200004402000310c00910c91e0d046a95abe2ee48a70a12111056a26";
const ZLIB: &str = "63e0ac48646480808a010220bb416e0000";
const LZ4: &str = "6200097861010001001f78010064800000000001000000";
const SNAPPY: &str = "8c011400097861010009010078fe0100da01001c0000000001000000";
const ZSTD: &str = "28b52ffd208cbd000078000978610100780000000001000000020014248181 22";

/// Type, payload with a size in the form V1, payload in the form V2.
fn vectors() -> Vec<(CompressionType, String, String)> {
    let both = |kind, text: &str| (kind, text.to_string(), text.to_string());
    vec![
        both(CompressionType::Snappy, SNAPPY),
        (CompressionType::Zlib, ZLIB.to_string(), format!("8c01{ZLIB}")),
        (CompressionType::Bzip2, BZIP2.to_string(), format!("8c01{BZIP2}")),
        (CompressionType::Lz4, format!("8c00000000000000{LZ4}"), format!("8c01{LZ4}")),
        (CompressionType::Lz4hc, format!("8c00000000000000{LZ4}"), format!("8c01{LZ4}")),
        both(CompressionType::Zstd, &format!("8c01{ZSTD}")),
    ]
}

const WRITABLE: [CompressionType; 6] = [
    CompressionType::Snappy,
    CompressionType::Zlib,
    CompressionType::Bzip2,
    CompressionType::Lz4,
    CompressionType::Lz4hc,
    CompressionType::Zstd,
];

#[test]
fn reads_and_writes_the_vectors() {
    let raw = raw_block();
    assert_eq!(raw.len(), 140);
    for (kind, v1, v2) in vectors() {
        if !kind.is_supported() {
            continue;
        }
        for (size_format, hex) in [(SizeFormat::V1, v1), (SizeFormat::V2, v2)] {
            let payload = unhex(&hex);
            let back = decompress_to_vec(kind, size_format, None, &payload, 4096).unwrap();
            assert_eq!(back, raw, "{kind:?} {size_format:?}");
            let mut out = Vec::new();
            let stored = compress(kind, &CompressionOptions::default(), size_format, b"", &raw, &mut out).unwrap();
            assert_eq!(stored, kind);
            assert_eq!(out, payload, "{kind:?} {size_format:?}");
        }
    }
}

fn sample_text(bytes: usize) -> Vec<u8> {
    (0u64..)
        .flat_map(|i| format!("user{:06}=value of {};", i * 7919 % 100_000, i % 13).into_bytes())
        .take(bytes)
        .collect()
}

#[test]
fn dictionaries_round_trip() {
    let samples = sample_text(60_000);
    let lengths: Vec<usize> = samples.chunks(500).map(<[u8]>::len).collect();
    let raw = sample_text(64_000)[61_000..61_300].to_vec();
    for kind in WRITABLE.into_iter().filter(|kind| kind.is_supported()) {
        for (train, trainer) in [(0, true), (60_000, true), (60_000, false)] {
            let options = CompressionOptions {
                max_dict_bytes: 4096,
                zstd_max_train_bytes: train,
                use_zstd_dict_trainer: trainer,
                ..Default::default()
            };
            let dictionary = build_dictionary(kind, &options, &samples, &lengths);
            assert!(!dictionary.is_empty() && dictionary.len() <= 4096);
            let mut compressor = Compressor::new(kind, &options, SizeFormat::V2, &dictionary).unwrap();
            let mut plain = Compressor::new(kind, &options, SizeFormat::V2, b"").unwrap();
            let reader = DecompressionDictionary::new(dictionary).unwrap();
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for round in 0..3 {
                assert_eq!(compressor.compress(&raw, &mut with), kind);
                assert_eq!(plain.compress(&raw, &mut without), kind);
                if kind.uses_dictionary() {
                    assert!(with.len() < without.len(), "{kind:?} {} {}", with.len(), without.len());
                }
                let back = decompress_to_vec(kind, SizeFormat::V2, Some(&reader), &with, 4096).unwrap();
                assert_eq!(back, raw, "{kind:?} round {round}");
            }
        }
    }
    assert!(DecompressionDictionary::new(Vec::new()).unwrap_err().is_corruption());
}

#[test]
fn levels_choose_the_lz4_compressor() {
    let raw = sample_text(4000);
    let mut out = Vec::new();
    for (kind, level, stored) in [
        (CompressionType::Lz4, 32767, CompressionType::Lz4),
        (CompressionType::Lz4, -5, CompressionType::Lz4),
        (CompressionType::Lz4, 4, CompressionType::Lz4hc),
        (CompressionType::Lz4hc, 32767, CompressionType::Lz4hc),
        (CompressionType::Lz4hc, 99, CompressionType::Lz4hc),
        (CompressionType::Lz4hc, 0, CompressionType::Lz4),
        (CompressionType::Zlib, 100, CompressionType::Zlib),
        (CompressionType::Zlib, i32::MIN, CompressionType::Zlib),
        (CompressionType::Zstd, 0, CompressionType::Zstd),
        (CompressionType::Zstd, 19, CompressionType::Zstd),
    ] {
        if kind.is_supported() {
            let options = CompressionOptions { level, window_bits: -15, checksum: true, ..Default::default() };
            assert_eq!(compress(kind, &options, SizeFormat::V2, b"", &raw, &mut out).unwrap(), stored);
            assert_eq!(decompress_to_vec(stored, SizeFormat::V2, None, &out, 4000).unwrap(), raw);
        }
    }
}

#[test]
fn what_does_not_shrink_enough_is_stored_as_it_is() {
    let noise: Vec<u8> = (0u64..4096).map(|i| (crate::hash::xxh3_64(&i.to_le_bytes())) as u8).collect();
    let mut out = vec![1, 2, 3];
    for kind in WRITABLE.into_iter().filter(|kind| kind.is_supported()) {
        for raw in [&noise[..], b"", b"abcde"] {
            let stored = compress(kind, &CompressionOptions::default(), SizeFormat::V2, b"", raw, &mut out).unwrap();
            assert_eq!((stored, out.len()), (CompressionType::None, 0), "{kind:?}");
        }
        let never = CompressionOptions { max_compressed_bytes_per_kb: 0, ..Default::default() };
        let stored = compress(kind, &never, SizeFormat::V2, b"", &raw_block(), &mut out).unwrap();
        assert_eq!(stored, CompressionType::None);
    }
}

#[test]
fn huge_size_prefixes_are_refused_before_memory_is_taken() {
    let mut out = Vec::new();
    for kind in WRITABLE.into_iter().filter(|kind| kind.is_supported()) {
        let mut payload = vec![0xff, 0xff, 0xff, 0xff, 0x07];
        payload.extend([0u8; 20]);
        for size_format in [SizeFormat::V1, SizeFormat::V2] {
            let error = decompress(kind, size_format, None, &payload, MAX_RAW_BLOCK_BYTES, &mut out).unwrap_err();
            assert!(error.is_corruption(), "{kind:?}: {error}");
            assert!(out.len() < 1 << 20);
        }
    }
    for (kind, v1, v2) in vectors() {
        if kind.is_supported() {
            for (size_format, hex) in [(SizeFormat::V1, v1), (SizeFormat::V2, v2)] {
                let error = decompress(kind, size_format, None, &unhex(&hex), 139, &mut out).unwrap_err();
                assert!(error.is_corruption(), "{kind:?}: {error}");
            }
        }
    }
}

#[test]
fn names_and_numbers() {
    for kind in CompressionType::ALL {
        assert_eq!(CompressionType::from_option_name(kind.option_name()), Some(kind));
        assert_eq!(CompressionType::from_property_name(kind.property_name()), Some(kind));
    }
    assert_eq!(CompressionType::from_u8(7).unwrap(), CompressionType::Zstd);
    let message = |number| CompressionType::from_u8(number).unwrap_err().message().to_string();
    assert_eq!(message(0x20), "Compression type not supported or not built-in: Reserved20");
    assert_eq!(message(0x8a), "Compression type not supported or not built-in: Custom8A");
    assert_eq!(message(0xff), "Compression type not supported or not built-in: DisableOption");
    let error = Compressor::new(CompressionType::Xpress, &CompressionOptions::default(), SizeFormat::V2, b"");
    assert_eq!(error.unwrap_err().kind(), firn_error::ErrorKind::NotSupported);
    assert_eq!(
        CompressionOptions::default().to_property_string(),
        "window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; enabled=0; \
         max_dict_buffer_bytes=0; use_zstd_dict_trainer=1; "
    );
}

fn any_writable() -> impl Strategy<Value = CompressionType> {
    proptest::sample::select(WRITABLE.to_vec()).prop_filter("built in", |kind| kind.is_supported())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn round_trips(kind in any_writable(), pieces in proptest::collection::vec((any::<u8>(), 1usize..300), 0..60),
                   v1: bool) {
        let raw: Vec<u8> = pieces.iter().flat_map(|&(byte, count)| std::iter::repeat_n(byte, count)).collect();
        let size_format = if v1 { SizeFormat::V1 } else { SizeFormat::V2 };
        let mut out = Vec::new();
        let stored = compress(kind, &CompressionOptions::default(), size_format, b"", &raw, &mut out).unwrap();
        if stored != CompressionType::None {
            prop_assert_eq!(decompress_to_vec(stored, size_format, None, &out, raw.len()).unwrap(), raw);
        }
    }

    #[test]
    fn damaged_payloads_never_panic(kind in any_writable(), flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
                                    cut in any::<usize>(), v1: bool, dictionary: bool) {
        let size_format = if v1 { SizeFormat::V1 } else { SizeFormat::V2 };
        let mut out = Vec::new();
        compress(kind, &CompressionOptions::default(), size_format, b"", &sample_text(3000), &mut out).unwrap();
        for (at, bits) in flips {
            let at = at % out.len();
            out[at] ^= bits;
        }
        out.truncate(cut % (out.len() + 1));
        let dictionary = dictionary.then(|| DecompressionDictionary::new(sample_text(100)).unwrap());
        let _ = decompress_to_vec(kind, size_format, dictionary.as_ref(), &out, 1 << 20);
    }

    #[test]
    fn noise_never_panics(kind in any_writable(), noise in proptest::collection::vec(any::<u8>(), 0..200), v1: bool) {
        let size_format = if v1 { SizeFormat::V1 } else { SizeFormat::V2 };
        let _ = decompress_to_vec(kind, size_format, None, &noise, 1 << 20);
    }
}
