//! `tidegate migrate`: brings the ledger up to date and says so. Starting the server does the same.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tidegate_admission::embedded::data_dir::DataDir;
use tidegate_ledger::{NoObserver, SqlLedger, postgres_schema_version, schema_version};
use tidegate_rehearse::say;

use super::{SettingsArgs, Verdict};
use crate::cluster;
use crate::embedded::ledger_options;

#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) async fn run(args: MigrateArgs) -> anyhow::Result<Verdict> {
    let (config, _) = args.settings.load()?;
    if config.is_cluster() {
        cluster::ledger(&config, Arc::new(NoObserver))?
            .migrate()
            .await
            .context("PostgreSQL cannot be used")?;
        say!("The ledger on PostgreSQL has schema {}.", postgres_schema_version());
        return Ok(Verdict::Yes);
    }
    let _alone = DataDir::lock(&config.data_dir)?;
    SqlLedger::open(&ledger_options(&config), Box::new(NoObserver))?;
    say!("The ledger in {} has schema {}.", config.data_dir.display(), schema_version());
    Ok(Verdict::Yes)
}
