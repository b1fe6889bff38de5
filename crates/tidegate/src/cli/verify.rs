//! `tidegate verify`: verifies the proof of a closed draw offline: its commitment and every play.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tidegate_rehearse::print_line;
use tidegate_rehearse::verify;
use tidegate_rehearse::verify::Verified;

use super::Outcome;

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Proof as returned by `GET /v1/draws/{id}/proof`; `-` reads standard input.
    #[arg(value_name = "PROOF.JSON")]
    proof: PathBuf,
    /// Commitment that you noted before the draw began: 64 hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    commitment: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: VerifyArgs) -> anyhow::Result<Outcome> {
    let text = if args.proof.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("failed to read standard input")?;
        text
    } else {
        std::fs::read_to_string(&args.proof)
            .with_context(|| format!("failed to read {}", args.proof.display()))?
    };
    let verified = verify::proof(&text, args.commitment.as_deref())
        .with_context(|| format!("{} is no proof of a closed draw", args.proof.display()))?;
    if args.json {
        print_line!("{}", as_json(&verified));
    } else {
        print(&verified);
    }
    Ok(if verified.wrong.is_empty() { Outcome::Passed } else { Outcome::Failed })
}

fn as_json(verified: &Verified) -> serde_json::Value {
    json!({
        "verdict": if verified.wrong.is_empty() { "pass" } else { "fail" },
        "draw_id": verified.draw_id, "plays": verified.plays, "wins": verified.wins, "wrong": verified.wrong,
    })
}

fn print(verified: &Verified) {
    print_line!("draw {}: {} plays, {} wins", verified.draw_id, verified.plays, verified.wins);
    for wrong in &verified.wrong {
        print_line!("  wrong: {wrong}");
    }
    if verified.wrong.is_empty() {
        print_line!("the commitment holds, and every play follows from it");
    } else {
        print_line!("the proof does not hold");
    }
}
