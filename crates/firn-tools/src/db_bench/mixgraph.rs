//! `mixgraph`: the workload modelled on measured production traffic: keys by a power law, optionally within key
//! ranges of their own popularity; value sizes and scan lengths by a Pareto distribution; a mix of gets, puts and
//! scans.

use super::harness::{Failure, Worker};
use super::random::{MersenneTwister64, skewed_key};
use super::stats::OpKind;

/// The popularity of key ranges.
struct KeyRanges {
    /// Where each range starts on the scale of weights, ascending.
    starts: Vec<u64>,
    /// Sum of all weights.
    scale: u64,
    /// Keys in each range.
    size: u64,
}

impl KeyRanges {
    /// Ranges whose popularity falls as `a·e^(b·x) + c·e^(d·x)`.
    fn new(num: u64, ranges: u64, [a, b, c, d]: [f64; 4]) -> Option<Self> {
        let mut amplify = 0_u64;
        let mut weights = Vec::new();
        for index in (1..=ranges).rev() {
            let x = index as f64;
            let mut share = a * (b * x).exp() + c * (d * x).exp();
            if share < 1e-16 {
                share = 0.0;
            }
            if amplify == 0 && share > 0.0 {
                // The rarest range gets the weight 1.
                amplify = (1.0 / share) as u64 + 1;
            }
            weights.push((amplify as f64 * share) as u64);
        }
        let scale: u64 = weights.iter().sum();
        if scale == 0 {
            return None;
        }
        let mut random = MersenneTwister64::new(scale);
        for index in 0..weights.len() {
            let other = (random.draw() % ranges) as usize;
            weights.swap(index, other);
        }
        let mut start = 0;
        let starts = weights
            .iter()
            .map(|weight| {
                start += weight;
                start - weight
            })
            .collect();
        Some(Self { starts, scale, size: num / ranges })
    }

    /// The range that the draw falls into.
    fn select(&self, draw: u64) -> u64 {
        let position = draw % self.scale;
        (self.starts.partition_point(|start| *start <= position).max(1) - 1) as u64
    }
}

/// The key rank of a uniform fraction under the power law; 0 when it has none.
fn power_law(fraction: f64, a: f64, b: f64) -> u64 {
    // A float turns into an integer by saturation here.
    (fraction / a).powf(1.0 / b).ceil() as i64 as u64
}

/// A Pareto-distributed number for a uniform fraction.
fn pareto(fraction: f64, theta: f64, k: f64, sigma: f64) -> i64 {
    let value = if k == 0.0 { theta - sigma * fraction.ln() } else { theta + sigma * (fraction.powf(-k) - 1.0) / k };
    value.ceil() as i64
}

/// Cumulative bounds of gets, puts and seeks in thousandths.
fn type_bounds(ratios: [f64; 3]) -> [u64; 3] {
    let total: f64 = ratios.iter().sum();
    let mut bound = 0;
    ratios.map(|ratio| {
        bound += (1000.0 * ratio / total).ceil() as u64;
        bound
    })
}

/// Values below this size are made this large.
const MIN_VALUE_BYTES: i64 = 10;
const MAX_VALUE_BYTES: i64 = 1 << 20;

/// `mixgraph`
pub fn mix_graph(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    let num = setup.num;
    let range_parameters = [flags.keyrange_dist_a, flags.keyrange_dist_b, flags.keyrange_dist_c, flags.keyrange_dist_d];
    let modelled = flags.key_dist_a != 0.0 && flags.key_dist_b != 0.0;
    let key_ranges = u64::try_from(flags.keyrange_num).unwrap_or(0).clamp(1, num);
    let ranges = match modelled && range_parameters.iter().any(|parameter| *parameter != 0.0) {
        true => Some(
            KeyRanges::new(num, key_ranges, range_parameters)
                .ok_or_else(|| Failure("mixgraph: the key range parameters give no key a share".to_owned()))?,
        ),
        false => None,
    };
    let bounds = type_bounds([flags.mix_get_ratio, flags.mix_put_ratio, flags.mix_seek_ratio]);
    let max_value = flags.mix_max_value_size.clamp(1, MAX_VALUE_BYTES);
    let max_scan = flags.mix_max_scan_len.max(1);
    let (options, write_options) = (bench.engine.read_options(), bench.engine.write_options(setup));
    let (mut gets, mut puts, mut seeks, mut found, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    let (mut value_sum, mut scan_sum) = (0.0_f64, 0.0_f64);
    let mut key = Vec::new();
    let mut limit = worker.limit(setup.reads, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let draw = worker.random.draw();
        let initial = skewed_key(draw, num, flags.read_random_exp_range);
        let remainder = initial % num;
        let fraction = remainder as f64 / num as f64;
        let number = if !modelled {
            initial
        } else if let Some(ranges) = &ranges {
            let within = (initial % ranges.size.max(1)) as f64 / ranges.size.max(1) as f64;
            let seed = power_law(within, flags.key_dist_a, flags.key_dist_b);
            let offset = MersenneTwister64::new(seed).draw() % ranges.size.max(1);
            ranges.size * ranges.select(initial) + offset
        } else {
            // The remainder is signed: about half of the keys are negative and were never written.
            let seed = power_law(fraction, flags.key_dist_a, flags.key_dist_b);
            (MersenneTwister64::new(seed).draw() as i64 % num as i64) as u64
        };
        worker.fill_key(number, num, &mut key);
        let choice = remainder % bounds[2].max(1);
        if choice < bounds[0] {
            gets += 1;
            if let Some(value) = db.get(&options, db.family(number), &key).map_err(|e| Failure::new("get error", &e))? {
                found += 1;
                bytes += (key.len() + value.len()) as u64;
            }
            if gets % 100 == 0
                && let Some(pacer) = &worker.job.read_pacer
            {
                pacer.request(100);
            }
            worker.stats.finished_ops(1, OpKind::Read);
        } else if choice < bounds[1] {
            puts += 1;
            let size = match pareto(fraction, flags.value_theta, flags.value_k, flags.value_sigma) {
                // A fraction of zero has no finite size.
                _ if fraction == 0.0 => MIN_VALUE_BYTES,
                size if size < MIN_VALUE_BYTES => MIN_VALUE_BYTES,
                size if size > max_value => size % max_value,
                size => size,
            };
            let value = worker.values.generate_sized(usize::try_from(size).unwrap_or(0));
            value_sum += value.len() as f64;
            db.put(&write_options, 0, &key, value).map_err(|e| Failure::new("put error", &e))?;
            if puts % 100 == 0
                && let Some(pacer) = &worker.job.write_pacer
            {
                pacer.request(100);
            }
            worker.stats.finished_ops(1, OpKind::Write);
        } else {
            seeks += 1;
            let mut scan = db.scan(&options, 0);
            scan.seek(&key);
            found += u64::from(scan.valid() && scan.key() == key.as_slice());
            let length = match fraction {
                0.0 => 0,
                _ => pareto(fraction, flags.iter_theta, flags.iter_k, flags.iter_sigma).rem_euclid(max_scan),
            };
            for _ in 0..length {
                if !scan.valid() {
                    break;
                }
                bytes += (scan.key().len() + scan.value().len()) as u64;
                scan.next();
                scan_sum += 1.0;
            }
            scan.status().map_err(|e| Failure::new("iterator error", &e))?;
            worker.stats.finished_ops(1, OpKind::Seek);
        }
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!(
        "( Gets:{gets} Puts:{puts} Seek:{seeks}, reads {found} in {} found, avg size: {} value, {} scan)\n",
        gets + seeks,
        mean(value_sum, puts),
        mean(scan_sum, seeks)
    ));
    Ok(())
}

/// The mean with one decimal, in C's spelling when there is none.
fn mean(sum: f64, count: u64) -> String {
    if count == 0 { "-nan".to_owned() } else { format!("{:.1}", sum / count as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_chosen_in_thousandths() {
        assert_eq!(type_bounds([0.83, 0.14, 0.03]), [830, 970, 1000]);
        assert_eq!(type_bounds([1.0, 0.0, 0.0]), [1000, 1000, 1000]);
        assert_eq!(type_bounds([2.0, 1.0, 1.0]), [500, 750, 1000]);
    }

    #[test]
    fn popular_ranges_are_selected_more_often() {
        let ranges = KeyRanges::new(100_000, 30, [14.18, -2.917, 0.0164, -0.08082]).expect("weights");
        let mut counts = vec![0_u32; 30];
        let mut random = MersenneTwister64::new(7);
        for _ in 0..30_000 {
            counts[ranges.select(random.draw()) as usize] += 1;
        }
        counts.sort_unstable();
        assert!(counts[29] > 10 * counts[10], "{counts:?}");
        assert!(KeyRanges::new(100, 10, [0.0; 4]).is_none());
    }

    #[test]
    fn pareto_grows_as_the_fraction_falls() {
        assert!(pareto(0.001, 0.0, 0.2615, 25.45) > pareto(0.9, 0.0, 0.2615, 25.45));
        assert_eq!(pareto(1.0, 0.0, 0.2615, 25.45), 0);
    }
}
