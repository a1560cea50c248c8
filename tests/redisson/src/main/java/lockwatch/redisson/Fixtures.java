package lockwatch.redisson;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.redisson.client.codec.Codec;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.SerializationCodec;

/** The bytes that real serializers make of plain values, one text file per serializer. */
final class Fixtures {
    private static final String HEADER = """
            # What %s makes of plain values.
            # Written by the command `fixtures` of tests/redisson; do not edit.
            # name <tab> bytes in hex <tab> what must be read: null, bool, int or text (text_hex: its UTF-8), or refused
            """;
    private static final Set<String> ALLOWED = Set.of("java.util.ArrayList", "java.util.HashMap", "java.util.Date",
            "java.math.BigInteger");

    private Fixtures() {}

    @FunctionalInterface
    private interface Serializer {
        byte[] bytes(Object value) throws IOException;
    }

    static void write(Path directory) throws IOException {
        Files.createDirectories(directory);
        write(directory, "kryo5", "Redisson's default, new Kryo5Codec(),", of(new Kryo5Codec()), Set.of());
        // Kryo cannot look into an atomic boolean of Java 17 in this variant.
        write(directory, "kryo5_references", "new Kryo5Codec(allowedClasses, useReferences = true)",
                of(new Kryo5Codec(ALLOWED, true)), Set.of("atomic_boolean"));
        write(directory, "jdk", "java.io.ObjectOutputStream (Redisson's SerializationCodec, Spring's"
                + " JdkSerializationRedisSerializer)", Fixtures::jdk, Set.of());
        write(directory, "json", "Redisson's JsonJacksonCodec", of(new JsonJacksonCodec()), Set.of());
        // In plain JSON a date is a number and an atomic boolean a boolean.
        write(directory, "json_plain", "Jackson's ObjectMapper", new ObjectMapper()::writeValueAsBytes,
                Set.of("date", "atomic_boolean"));
    }

    private static void write(Path directory, String name, String title, Serializer serializer,
            Set<String> without) throws IOException {
        Map<String, Object> values = values();
        values.keySet().removeAll(without);
        StringBuilder text = new StringBuilder(HEADER.formatted(title));
        for (Map.Entry<String, Object> entry : values.entrySet()) {
            String hex = HexFormat.of().formatHex(serializer.bytes(entry.getValue()));
            text.append(entry.getKey()).append('\t').append(hex).append('\t').append(expected(entry.getValue()));
            text.append('\n');
        }
        Files.writeString(directory.resolve(name + ".txt"), text);
    }

    private static Serializer of(Codec codec) {
        return value -> {
            ByteBuf buffer = codec.getValueEncoder().encode(value);
            try {
                return ByteBufUtil.getBytes(buffer);
            } finally {
                buffer.release();
            }
        };
    }

    private static byte[] jdk(Object value) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(value);
        }
        byte[] plain = bytes.toByteArray();
        if (!Arrays.equals(plain, of(new SerializationCodec()).bytes(value))) {
            throw new IllegalStateException("SerializationCodec differs from ObjectOutputStream");
        }
        return plain;
    }

    private static String expected(Object value) {
        if (value == null) {
            return "null:";
        }
        if (value instanceof Boolean) {
            return "bool:" + value;
        }
        if (value instanceof Integer || value instanceof Long || value instanceof Short || value instanceof Byte) {
            return "int:" + value;
        }
        if (value instanceof String text) {
            return text.chars().anyMatch(Character::isISOControl)
                    ? "text_hex:" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8)) : "text:" + text;
        }
        return "refused:";
    }

    private static Map<String, Object> values() {
        Map<String, Object> values = scalars();
        values.put("list", new ArrayList<>(List.of("on")));
        values.put("map", new HashMap<>(Map.of("on", true)));
        values.put("date", new Date(0));
        values.put("double", 1.0);
        values.put("atomic_boolean", new AtomicBoolean(true));
        values.put("big_integer", BigInteger.TWO.pow(70));
        return values;
    }

    private static Map<String, Object> scalars() {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("null", null);
        values.put("true", true);
        values.put("false", false);
        for (int value : new int[] {0, 1, -1, 2, 63, 64, 127, 128, 300, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
            values.put("int_" + value, value);
        }
        for (long value : new long[] {0, 1, -1, 300, 1L << 40, Long.MIN_VALUE, Long.MAX_VALUE}) {
            values.put("long_" + value, value);
        }
        for (short value : new short[] {0, 1, -2, 300, Short.MIN_VALUE}) {
            values.put("short_" + value, value);
        }
        for (byte value : new byte[] {0, 1, -1}) {
            values.put("byte_" + value, value);
        }
        for (String value : List.of("on", "off", "true", "false", "1", "NO", "null", "x", "wärm", "ä", "日本語", "🔒 zu")) {
            values.put("string_" + value, value);
        }
        values.put("string_empty", "");
        values.put("string_quote", "\"on\" \\ /");
        values.put("string_control", "a\u0000b\n\tc\u0001");
        values.put("string_32_chars", "0123456789".repeat(3) + "ab");
        values.put("string_33_chars", "0123456789".repeat(3) + "abc");
        values.put("string_75_chars", "warehouse outbound ".repeat(4).substring(0, 75));
        values.put("string_300_chars", "0123456789".repeat(30));
        values.put("string_300_wide_chars", "äöü".repeat(100));
        return values;
    }
}
