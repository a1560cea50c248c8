package lockwatch.redisson;

import java.util.Map;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.SerializationCodec;

/** Values written as an application writes them, through Redisson's own collections and codecs. */
final class Values {
    private static final Codec KRYO5 = new Kryo5Codec();
    private static final Codec JDK = new SerializationCodec();
    private static final Codec JSON = new JsonJacksonCodec();

    private Values() {}

    static Codec codec(String name) {
        return switch (name) {
            case "kryo5" -> KRYO5;
            case "jdk" -> JDK;
            case "json" -> JSON;
            case "raw" -> StringCodec.INSTANCE;
            default -> throw new IllegalArgumentException("no codec " + name);
        };
    }

    private static Object value(String type, String text) {
        return switch (type) {
            case "bool" -> switch (text) {
                case "true" -> Boolean.TRUE;
                case "false" -> Boolean.FALSE;
                default -> throw new IllegalArgumentException("no boolean: " + text);
            };
            case "int" -> Integer.valueOf(text);
            case "long" -> Long.valueOf(text);
            case "string" -> text;
            case "null" -> null;
            default -> throw new IllegalArgumentException("no type " + type);
        };
    }

    /** {@code map-put CLIENT NAME FIELD TYPE VALUE CODEC [field_codec=CODEC]}. */
    static void mapPut(RedissonClient redisson, Command command) {
        Codec values = codec(command.word(5));
        Codec fields = codec(command.option("field_codec", command.word(5)));
        Map<String, Object> map = redisson.getMap(command.word(1), new CompositeCodec(fields, values));
        map.put(command.word(2), value(command.word(3), command.word(4)));
    }

    /** {@code map-get CLIENT NAME FIELD CODEC [field_codec=CODEC]}. */
    static Map<String, Object> mapGet(RedissonClient redisson, Command command) {
        Codec values = codec(command.word(3));
        Codec fields = codec(command.option("field_codec", command.word(3)));
        Object value = redisson.getMap(command.word(1), new CompositeCodec(fields, values)).get(command.word(2));
        String type = value == null ? "null" : value.getClass().getSimpleName();
        return Map.of("type", type, "value", String.valueOf(value));
    }

    /** {@code set-add CLIENT NAME TYPE VALUE CODEC}. */
    static void setAdd(RedissonClient redisson, Command command) {
        redisson.getSet(command.word(1), codec(command.word(4))).add(value(command.word(2), command.word(3)));
    }

    /** {@code bucket-set CLIENT NAME TYPE VALUE CODEC}. */
    static void bucketSet(RedissonClient redisson, Command command) {
        redisson.getBucket(command.word(1), codec(command.word(4))).set(value(command.word(2), command.word(3)));
    }
}
