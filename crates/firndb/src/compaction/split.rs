//! Splitting a compaction into ranges that run at the same time.
//!
//! Every input table is divided by its anchors, keys with the bytes before them; adding them up in key order shows where to
//! cut so that all parts read about as much. Anchors in, boundaries out: a pure function.

use firn_format::comparator::InternalKeyComparator;
use firn_table::Anchor;

/// User keys at which the ranges of subcompactions begin, except the first: ranges are `[previous, boundary)`.
///
/// `parts` is the greatest number of ranges; none gets less than `min_bytes`, so that a small compaction stays whole.
pub(crate) fn boundaries(
    mut anchors: Vec<Anchor>,
    parts: u32,
    min_bytes: u64,
    order: &InternalKeyComparator,
) -> Vec<Vec<u8>> {
    let total: u64 = anchors.iter().map(|anchor| anchor.range_size).sum();
    let target = (total / u64::from(parts.max(1))).max(min_bytes).max(1);
    if parts < 2 || target >= total {
        return Vec::new();
    }
    anchors.sort_by(|a, b| order.compare_user(&a.user_key, &b.user_key));
    anchors.dedup_by(|later, kept| {
        let same = order.compare_user(&later.user_key, &kept.user_key).is_eq();
        if same {
            kept.range_size += later.range_size;
        }
        same
    });
    let mut result: Vec<Vec<u8>> = Vec::new();
    let (mut sum, mut threshold) = (0u64, target);
    for anchor in anchors {
        sum += anchor.range_size;
        if sum > threshold {
            result.push(anchor.user_key);
            threshold += target;
            if result.len() + 1 >= parts as usize {
                break;
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors(sizes: &[u64]) -> Vec<Anchor> {
        let anchor = |(at, &range_size): (usize, &u64)| Anchor { user_key: vec![b'a' + at as u8], range_size };
        sizes.iter().enumerate().map(anchor).collect()
    }

    fn split(anchors: Vec<Anchor>, parts: u32, min_bytes: u64) -> String {
        let order = InternalKeyComparator::default();
        boundaries(anchors, parts, min_bytes, &order)
            .iter()
            .map(|key| String::from_utf8_lossy(key).into_owned())
            .collect()
    }

    #[test]
    fn parts_read_about_as_much() {
        assert_eq!(split(anchors(&[10; 8]), 2, 0), "e");
        assert_eq!(split(anchors(&[10; 8]), 4, 0), "ceg");
        assert_eq!(split(anchors(&[70, 10, 10, 10]), 4, 0), "abc");
        let twice = [anchors(&[10; 8]), anchors(&[10; 8])].concat();
        assert_eq!(split(twice, 2, 0), "e");
    }

    #[test]
    fn small_compactions_stay_whole() {
        assert_eq!(split(anchors(&[10; 8]), 1, 0), "");
        assert_eq!(split(anchors(&[10; 8]), 4, 100), "");
        assert_eq!(split(anchors(&[10; 8]), 4, 40), "e");
        assert_eq!(split(Vec::new(), 4, 0), "");
    }
}
