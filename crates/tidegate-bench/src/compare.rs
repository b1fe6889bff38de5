//! `tidegate-bench compare`: A/B comparison of two versions or settings of the server.
//!
//! Both servers run at the same time and are measured in pairs, one right after the other, in alternating order. Each
//! pair yields one ratio, so that a temporary slowdown of the machine affects both. Comparing two identical versions
//! shows the noise.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;

use crate::figures::{Spread, float, median};
use crate::plan::{Candidate, GROUPS};
use crate::rounds::closed_loop;
use crate::servers::Servers;
use crate::{process, server};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Candidate to measure, such as embedded or behind_proxy.
    #[arg(long)]
    only: String,
    /// Number of pairs of runs.
    #[arg(long, default_value_t = 16)]
    pairs: usize,
    /// Server executable [default: tidegate next to this program].
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Server executable to compare with [default: the same as --server].
    #[arg(long, value_name = "PATH")]
    other: Option<PathBuf>,
    /// Setting for the other server only, such as http.fast_path=false. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let known = GROUPS.iter().copied().flatten().find(|known| known.name == args.only);
    let candidate = known.with_context(|| format!("unknown candidate {}", args.only))?;
    ensure!(
        candidate.overload_factor.is_none(),
        "{} is an overload test, whose rate cannot be compared",
        args.only
    );
    ensure!(args.pairs > 0, "at least one pair is needed");
    let settings = args.set.iter().map(|setting| variable(setting)).collect::<anyhow::Result<Vec<_>>>()?;
    process::allow_many_connections()?;
    let mut first = Servers::new(server(args.server.as_ref())?, Vec::new());
    let mut other = Servers::new(server(args.other.as_ref().or(args.server.as_ref()))?, settings);
    for servers in [&mut first, &mut other] {
        servers.start(candidate.server)?;
        closed_loop(servers, &Candidate { count: candidate.count / 10, ..*candidate })?;
    }
    let (mut rates, mut other_rates) = (Vec::new(), Vec::new());
    for pair in 0..args.pairs {
        let measure = |servers: &mut Servers| closed_loop(servers, candidate).map(|run| run.rate);
        let (rate, other_rate) = if pair % 2 == 0 {
            let rate = measure(&mut first)?;
            (rate, measure(&mut other)?)
        } else {
            let other_rate = measure(&mut other)?;
            (measure(&mut first)?, other_rate)
        };
        eprintln!("pair {} {rate:>9.0}/s  other {other_rate:>9.0}/s  {:.3}", pair + 1, rate / other_rate);
        rates.push(rate);
        other_rates.push(other_rate);
    }
    print(candidate.name, &rates, &other_rates)
}

/// The environment variable and value for a setting.
fn variable(setting: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = setting.split_once('=').context("a setting is KEY=VALUE")?;
    let separator = if key.contains('.') { "__" } else { "_" };
    Ok((format!("TIDEGATE{separator}{}", key.to_uppercase().replace('.', "__")), value.to_owned()))
}

fn print(name: &str, rates: &[f64], other_rates: &[f64]) -> anyhow::Result<()> {
    let ratios: Vec<f64> = rates.iter().zip(other_rates).map(|(rate, other)| rate / other).collect();
    let ratio = Spread::of(&ratios).context("nothing was measured")?;
    let (low, high) = confidence_interval(&ratios);
    let middle = |rates: &[f64]| median(rates).unwrap_or(0.0);
    println!(
        "{name}: {:.0}/s, other {:.0}/s; ratio {:.3}, 90 % interval {low:.3} to {high:.3}, pairs {:.3} to {:.3}",
        middle(rates),
        middle(other_rates),
        ratio.median,
        ratio.min,
        ratio.max
    );
    Ok(())
}

/// Distribution-free confidence interval of the median at 90 % or more (sign test): the k-th smallest and the k-th
/// largest of n values, for the largest k with P(Binomial(n, 1/2) < k) <= 5 %. With fewer than five values it is their
/// whole range, at a lower confidence.
fn confidence_interval(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The probability of exactly `heads` heads, starting with none.
    let (mut exactly, mut fewer, mut k) = (0.5_f64.powf(float(n as u64)), 0.0, 1);
    for heads in 0..n / 2 {
        fewer += exactly;
        if fewer > 0.05 {
            break;
        }
        k = heads + 1;
        exactly *= float((n - heads) as u64) / float((heads + 1) as u64);
    }
    (sorted[k - 1], sorted[n - k])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_an_environment_variable() {
        let name = |setting: &str| variable(setting).unwrap();
        assert_eq!(name("http.fast_path=false"), ("TIDEGATE__HTTP__FAST_PATH".into(), "false".into()));
        assert_eq!(name("demo=off"), ("TIDEGATE_DEMO".into(), "off".into()));
        assert!(variable("http.fast_path").is_err());
    }

    #[test]
    fn the_interval_leaves_out_what_a_fair_coin_seldom_shows() {
        let of = |n: u32| confidence_interval(&(1..=n).map(f64::from).collect::<Vec<_>>());
        // From the tables of the sign test at 10 %, two-sided: 1 of 5, 2 of 8, 4 of 13, 5 of 17.
        assert_eq!(of(1), (1.0, 1.0));
        assert_eq!(of(4), (1.0, 4.0));
        assert_eq!(of(5), (1.0, 5.0));
        assert_eq!(of(8), (2.0, 7.0));
        assert_eq!(of(13), (4.0, 10.0));
        assert_eq!(of(17), (5.0, 13.0));
    }
}
