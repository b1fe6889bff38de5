//! `tidegate migrate`: brings the ledger up to date and says so. Starting the server does the same.

use clap::Args;
use tidegate_store::data_dir::DataDir;
use tidegate_store::ledger::sql::{SqlLedger, Unobserved, schema_version};

use super::{SettingsArgs, Verdict};
use crate::embedded::ledger_options;

#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(args: MigrateArgs) -> anyhow::Result<Verdict> {
    let (config, _) = args.settings.load()?;
    let _alone = DataDir::lock(&config.data_dir)?;
    SqlLedger::open(&ledger_options(&config), Box::new(Unobserved))?;
    say!("The ledger in {} has schema {}.", config.data_dir.display(), schema_version());
    Ok(Verdict::Yes)
}
