//! Phrases of the node page.

use super::phrases;

phrases! {
    /// Phrases of the node page.
    NodePhrases;
    this_node "This node" "本节点"
    node_name "Name" "名称"
    node_number "Number" "编号"
    version "Version" "版本"
    uptime "Uptime" "已运行"
    deployment "Deployment" "部署方式"
    deployment_embedded "Single process with built-in journal and SQLite" "单进程，内置日志与 SQLite"
    deployment_cluster "Cluster on Redis and PostgreSQL" "集群，使用 Redis 与 PostgreSQL"
    unrecorded "Unrecorded claims" "待入账"
    connections "Connections" "连接"
    streams "Event streams" "事件流"
    rebuilds "Gate rebuilds" "闸门重建"
    drift_units "Drift in units" "差额件数"
    next_deadline "Next unpaid order expires" "下一个订单超时"
    backlog "Pending deliveries" "待发放"
    health_ok "Healthy: accepting orders" "一切正常，可接单"
    health_bad "Not ready: refusing new orders" "未就绪，暂不接单"
    all_nodes "All nodes" "全部节点"
    single_text
        "This server runs as a single process. In a cluster, all nodes are listed here."
        "当前为单进程；集群模式下会列出全部节点。"
    lease_until "Lease valid until" "租约有效至"
    is_this "this node" "本节点"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_about_nodes_in_both_languages() {
        crate::i18n::phrases::check(NodePhrases::ALL);
    }
}
