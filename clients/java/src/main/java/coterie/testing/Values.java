package coterie.testing;

import java.util.Base64;
import java.util.List;
import java.util.Map;

/** The bytes of records in JSON. */
abstract class Values {
    static Map<String, String> bytes(byte[] value) {
        return value == null ? null : Map.of("base64", Base64.getEncoder().encodeToString(value));
    }

    static List<Map<String, String>> values(List<byte[]> values) {
        return values.stream().map(Values::bytes).toList();
    }
}
