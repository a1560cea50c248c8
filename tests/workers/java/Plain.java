import org.redisson.api.RedissonClient;

/** Runs Outbound. */
final class Plain {
    public static void main(String[] arguments) throws Exception {
        RedissonClient redisson = Orders.redisson();
        try {
            Outbound.run(redisson, new Orders()::shipNext);
        } finally {
            redisson.shutdown();
        }
    }
}
