package lockwatch.redisson;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.HostPortNatMapper;
import org.redisson.config.NatMapper;
import org.redisson.config.ReplicatedServersConfig;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/** The options of {@code connect} as Redisson's configuration. What is not given stays as Redisson has it. */
final class Connection {
    private final Command command;
    private final Config config = new Config();

    private Connection(Command command) {
        this.command = command;
    }

    static Config config(Command command) {
        Connection connection = new Connection(command);
        connection.common();
        connection.servers();
        return connection.config;
    }

    private void common() {
        config.setThreads(4).setNettyThreads(4);
        config.setLockWatchdogTimeout(command.millis("watchdog", config.getLockWatchdogTimeout()));
        config.setFairLockWaitTimeout(command.millis("fair_wait", config.getFairLockWaitTimeout()));
        config.setSlavesSyncTimeout(command.millis("sync_timeout", config.getSlavesSyncTimeout()));
        config.setCheckLockSyncedSlaves(!command.option("check_synced", "yes").equals("no"));
        if (has("password")) {
            config.setPassword(command.option("password", ""));
        }
        if (has("username")) {
            config.setUsername(command.option("username", ""));
        }
    }

    private void servers() {
        String mode = command.option("mode", "single");
        switch (mode) {
            case "single" -> single(config.useSingleServer());
            case "sentinel" -> sentinel(config.useSentinelServers());
            case "cluster" -> cluster(config.useClusterServers());
            case "replicated" -> replicated(config.useReplicatedServers());
            default -> throw new IllegalArgumentException("no mode " + mode);
        }
    }

    private void single(SingleServerConfig server) {
        server.setAddress(url(command.option("host", "127.0.0.1") + ":" + command.option("port", "6379")));
        server.setDatabase(command.count("db", 0));
        server.setTimeout(command.count("timeout", server.getTimeout()));
        server.setRetryAttempts(command.count("retries", server.getRetryAttempts()));
        server.setConnectionMinimumIdleSize(1).setConnectionPoolSize(8);
        server.setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4);
    }

    private void sentinel(SentinelServersConfig servers) {
        small(servers).setMasterName(command.option("master", "mymaster")).setDatabase(command.count("db", 0));
        servers.setSentinelAddresses(nodes());
        servers.setScanInterval(command.count("scan", servers.getScanInterval()));
        servers.setNatMapper(nat());
        if (has("sentinel_username")) {
            servers.setSentinelUsername(command.option("sentinel_username", ""));
        }
        if (has("sentinel_password")) {
            servers.setSentinelPassword(command.option("sentinel_password", ""));
        }
    }

    private void cluster(ClusterServersConfig servers) {
        small(servers).setNodeAddresses(nodes());
        servers.setScanInterval(command.count("scan", servers.getScanInterval()));
        servers.setNatMapper(nat());
    }

    private void replicated(ReplicatedServersConfig servers) {
        small(servers).setDatabase(command.count("db", 0)).setNodeAddresses(nodes());
        servers.setScanInterval(command.count("scan", servers.getScanInterval()));
        servers.setNatMapper(nat());
    }

    private <T extends BaseMasterSlaveServersConfig<T>> T small(T servers) {
        servers.setTimeout(command.count("timeout", servers.getTimeout()));
        servers.setRetryAttempts(command.count("retries", servers.getRetryAttempts()));
        servers.setMasterConnectionMinimumIdleSize(1).setMasterConnectionPoolSize(8);
        servers.setSlaveConnectionMinimumIdleSize(1).setSlaveConnectionPoolSize(8);
        return servers.setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4);
    }

    private List<String> nodes() {
        List<String> nodes = new ArrayList<>();
        for (String node : command.option("nodes", "127.0.0.1:6379").split(",")) {
            nodes.add(url(node));
        }
        return nodes;
    }

    private NatMapper nat() {
        if (!has("nat")) {
            return NatMapper.direct();
        }
        Map<String, String> pairs = new HashMap<>();
        for (String pair : command.option("nat", "").split(",")) {
            int arrow = pair.indexOf('>');
            pairs.put(pair.substring(0, arrow), pair.substring(arrow + 1));
        }
        HostPortNatMapper mapper = new HostPortNatMapper();
        mapper.setHostsPortMap(pairs);
        return mapper;
    }

    private boolean has(String option) {
        return command.options().containsKey(option);
    }

    private static String url(String address) {
        return "redis://" + address;
    }
}
