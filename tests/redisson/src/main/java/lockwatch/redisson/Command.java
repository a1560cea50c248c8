package lockwatch.redisson;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * One line of input: words, then options {@code name=value}. Words are separated by blanks; {@code %20} and the like
 * stand for bytes that a word cannot hold (an empty word is {@code %}).
 */
record Command(String name, List<String> words, Map<String, String> options) {
    private static final String OPTION = "[a-z_]+=.*";

    static Command parse(String line) {
        List<String> words = new ArrayList<>();
        Map<String, String> options = new HashMap<>();
        for (String word : line.strip().split("\\s+")) {
            if (word.matches(OPTION)) {
                int equals = word.indexOf('=');
                options.put(word.substring(0, equals), decode(word.substring(equals + 1)));
            } else {
                words.add(decode(word));
            }
        }
        String name = words.remove(0);
        return new Command(name, words, options);
    }

    private static String decode(String word) {
        return word.equals("%") ? "" : URLDecoder.decode(word.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    String word(int index) {
        if (index >= words.size()) {
            throw new IllegalArgumentException(name + ": word " + (index + 1) + " is missing");
        }
        return words.get(index);
    }

    String option(String key, String otherwise) {
        return options.getOrDefault(key, otherwise);
    }

    long millis(String key, long otherwise) {
        String text = options.get(key);
        return text == null ? otherwise : Long.parseLong(text);
    }

    int count(String key, int otherwise) {
        return Math.toIntExact(millis(key, otherwise));
    }
}
