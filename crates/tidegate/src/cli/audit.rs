//! `tidegate audit`: checks every promise against the ledger in the data directory, server running or not.

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};
use tidegate_core::Kind;
use tidegate_core::public_id::{Public, PublicIds};
use tidegate_store::ledger::sql::{SqlLedger, path_in};
use tidegate_store::ledger::{Audit, Ledger, Page};

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
    let ledger = SqlLedger::open_to_read(&ledger_options(&config))?;
    let secret = ledger.setting("secret").await?;
    let secret = secret.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; 32]);
    let ids = PublicIds::new(&secret);
    let (mut sales, mut draws): (Vec<Value>, Vec<Value>) = Default::default();
    let mut ok = true;
    for (noun, found) in [("sale", &mut sales), ("draw", &mut draws)] {
        for (campaign, _) in ledger.campaigns(noun, false, Page::ALL).await? {
            let Some(audit) = ledger.audit(campaign.id).await? else { continue };
            ok &= audit.violations.is_empty();
            let id = match campaign.kind {
                Kind::Sale(_) => campaign.id.print(&ids),
                Kind::Draw(_) => campaign.id.as_draw().print(&ids),
            };
            if !args.json {
                print(noun, &id, &audit);
            }
            found.push(json!({noun: id, "checked": audit.checked, "violations": audit.violations}));
        }
    }
    if args.json {
        say!("{}", json!({"ok": ok, "sales": sales, "draws": draws}));
    } else {
        let verdict = if ok { "every promise holds" } else { "promises are broken" };
        say!("{} sales and {} draws checked: {verdict}", sales.len(), draws.len());
    }
    Ok(if ok { Verdict::Yes } else { Verdict::No })
}

fn print(noun: &str, id: &str, audit: &Audit) {
    let verdict = if audit.violations.is_empty() { "ok" } else { "BROKEN" };
    let tally = audit.tally;
    say!(
        "{noun} {id}  {verdict}  {} rows  stock {}  awaiting {}  paid {}  returned {}",
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
