//! The cost of tokens: the digest for the session lookup, and the keyed digest that seals a pass. Run by `make micro`.

use divan::{Bencher, black_box};
use tidegate_app::digest::{digest, keyed, token};

fn main() {
    divan::main();
}

#[divan::bench]
fn token_digest(bencher: Bencher<'_, '_>) {
    let token = token("tu_", &[7; 32]);
    bencher.bench_local(|| digest(&[black_box(token.as_bytes())]));
}

/// A pass is 36 bytes; sealing it and checking its seal cost one keyed digest each.
#[divan::bench]
fn pass_seal(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| keyed(black_box(&[7; 32]), &[black_box(&[1; 36])]));
}
