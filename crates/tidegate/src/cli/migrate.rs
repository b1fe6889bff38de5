//! `tidegate migrate`: migrates the ledger's schema and prints its version. Starting the server migrates, too.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use tidegate_admission::embedded::data_dir::DataDir;
use tidegate_ledger::{NoObserver, SqlLedger, postgres_schema_version, schema_version};
use tidegate_rehearse::print_line;

use super::{Outcome, SettingsArgs};
use crate::cluster;
use crate::embedded::ledger_options;

#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) async fn run(args: MigrateArgs) -> anyhow::Result<Outcome> {
    let (config, _) = args.settings.load()?;
    if config.is_cluster() {
        cluster::ledger(&config, Arc::new(NoObserver))?
            .migrate()
            .await
            .context("PostgreSQL cannot be used")?;
        print_line!("The ledger on PostgreSQL has schema {}.", postgres_schema_version());
        return Ok(Outcome::Passed);
    }
    let _alone = DataDir::lock(&config.data_dir)?;
    SqlLedger::open(&ledger_options(&config), Box::new(NoObserver))?;
    print_line!("The ledger in {} has schema {}.", config.data_dir.display(), schema_version());
    Ok(Outcome::Passed)
}
