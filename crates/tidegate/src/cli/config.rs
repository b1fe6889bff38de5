//! `tidegate config check|show`.

use clap::{Args, Subcommand};
use tidegate_rehearse::say;

use super::{SettingsArgs, Verdict};
use crate::config::show;

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say whether the configuration is sound.
    Check {
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Print what is in force and where it came from. Secrets are not shown.
    Show {
        #[command(flatten)]
        settings: SettingsArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(args: ConfigArgs) -> anyhow::Result<Verdict> {
    match args.action {
        Action::Check { settings } => {
            settings.load()?;
            say!("The configuration is sound.");
        }
        Action::Show { settings, json } => {
            let shown = show(&settings.load()?.1);
            if json {
                say!("{}", serde_json::to_string_pretty(&shown)?);
            } else {
                let width =
                    shown.iter().map(|setting| setting.key.len() + setting.value.len()).max().unwrap_or(0);
                for setting in shown {
                    let gap = width - setting.key.len() - setting.value.len();
                    say!("{} = {}{}  # {}", setting.key, setting.value, " ".repeat(gap), setting.origin);
                }
            }
        }
    }
    Ok(Verdict::Yes)
}
