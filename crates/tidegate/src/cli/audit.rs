//! `tidegate audit`: checks every promise against the ledger in the data directory, server running or not.

use anyhow::bail;
use clap::Args;
use serde_json::json;
use tidegate_core::public_id::{Public, PublicIds};
use tidegate_store::ledger::sqlite::{SqliteLedger, path_in};
use tidegate_store::ledger::{Ledger, Page};

use super::{SettingsArgs, Verdict};
use crate::embedded::ledger_options;

#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: AuditArgs) -> anyhow::Result<Verdict> {
    let (config, _) = args.settings.load()?;
    if !path_in(&config.data_dir).exists() {
        bail!("there is no ledger in {}; say where it is with --data-dir", config.data_dir.display());
    }
    let ledger = SqliteLedger::open_to_read(&ledger_options(&config))?;
    let secret = ledger.setting("secret")?.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 32]);
    let ids = PublicIds::new(&secret);
    let mut sales = Vec::new();
    let mut ok = true;
    for (sale, _) in ledger.campaigns("sale", false, Page::ALL).await? {
        let Some(audit) = ledger.audit(sale.id).await? else { continue };
        ok &= audit.violations.is_empty();
        let id = sale.id.print(&ids);
        if !args.json {
            let verdict = if audit.violations.is_empty() { "ok" } else { "BROKEN" };
            let tally = audit.tally;
            say!(
                "{id}  {verdict}  {} rows  stock {}  awaiting {}  paid {}  returned {}",
                audit.checked,
                tally.stock,
                tally.awaiting_payment,
                tally.paid,
                tally.returned
            );
            for violation in &audit.violations {
                say!("               {violation}");
            }
        }
        sales.push(json!({"sale": id, "checked": audit.checked, "violations": audit.violations}));
    }
    if args.json {
        say!("{}", json!({"ok": ok, "sales": sales}));
    } else {
        say!(
            "{} sales checked: {}",
            sales.len(),
            if ok { "every promise holds" } else { "promises are broken" }
        );
    }
    Ok(if ok { Verdict::Yes } else { Verdict::No })
}
