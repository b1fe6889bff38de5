//! `tidegate verify`: checks a draw's proof offline: what it was bound to, and every play.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tidegate_rehearse::say;
use tidegate_rehearse::verify;
use tidegate_rehearse::verify::Verified;

use super::Verdict;

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The proof, as `GET /v1/draws/{id}/proof` gave it; `-` reads it from standard input.
    #[arg(value_name = "PROOF.JSON")]
    proof: PathBuf,
    /// What the draw was bound to before it began, noted by yourself: 64 hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    commitment: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: VerifyArgs) -> anyhow::Result<Verdict> {
    let text = if args.proof.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
        text
    } else {
        std::fs::read_to_string(&args.proof)
            .with_context(|| format!("{} cannot be read", args.proof.display()))?
    };
    let verified = verify::proof(&text, args.commitment.as_deref())
        .with_context(|| format!("{} is no proof of a closed draw", args.proof.display()))?;
    if args.json {
        say!("{}", as_json(&verified));
    } else {
        print(&verified);
    }
    Ok(if verified.wrong.is_empty() { Verdict::Yes } else { Verdict::No })
}

fn as_json(verified: &Verified) -> serde_json::Value {
    json!({
        "verdict": if verified.wrong.is_empty() { "pass" } else { "fail" },
        "draw_id": verified.draw_id, "plays": verified.plays, "wins": verified.wins, "wrong": verified.wrong,
    })
}

fn print(verified: &Verified) {
    say!("draw {}: {} plays, {} wins", verified.draw_id, verified.plays, verified.wins);
    for wrong in &verified.wrong {
        say!("  wrong: {wrong}");
    }
    if verified.wrong.is_empty() {
        say!("the commitment holds, and every play follows from it");
    } else {
        say!("the proof does not hold");
    }
}
