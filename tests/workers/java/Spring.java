import org.redisson.api.RedissonClient;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;

/** Runs OutboundWorker in a Spring application that closes once there is a file stop. */
final class Spring {
    public static void main(String[] arguments) throws Exception {
        try (var application = new AnnotationConfigApplicationContext()) {
            application.registerBean(RedissonClient.class, Orders::redisson,
                definition -> definition.setDestroyMethodName("shutdown"));
            application.registerBean(Orders.class, () -> new Orders());
            application.register(OutboundWorker.class);
            application.refresh();
            while (!Orders.isThere("stop")) {
                Thread.sleep(50);
            }
        }
    }
}
