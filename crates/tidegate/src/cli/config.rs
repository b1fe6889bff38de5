//! `tidegate config check|show`.

use clap::{Args, Subcommand};
use tidegate_rehearse::print_line;

use super::{Outcome, SettingsArgs};
use crate::config::show;

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Validate the configuration.
    Check {
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Print every effective setting with its origin. Secrets are redacted.
    Show {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Print the settings as JSON.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(args: ConfigArgs) -> anyhow::Result<Outcome> {
    match args.action {
        Action::Check { settings } => {
            settings.load()?;
            print_line!("The configuration is sound.");
        }
        Action::Show { settings, json } => {
            let shown = show(&settings.load()?.1);
            if json {
                print_line!("{}", serde_json::to_string_pretty(&shown)?);
            } else {
                let width =
                    shown.iter().map(|setting| setting.key.len() + setting.value.len()).max().unwrap_or(0);
                for setting in shown {
                    let gap = width - setting.key.len() - setting.value.len();
                    print_line!(
                        "{} = {}{}  # {}",
                        setting.key,
                        setting.value,
                        " ".repeat(gap),
                        setting.origin
                    );
                }
            }
        }
    }
    Ok(Outcome::Passed)
}
