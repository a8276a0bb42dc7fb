import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ClientFinalMessage;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ClientFirstMessage;
import org.apache.kafka.common.security.scram.internals.ScramMessages.ServerFirstMessage;

/** What Kafka and Java make of a text. Each line in: SUBJECT KIND TEXT, each line out: the result or "!"; texts in base64. */
public class Java {
    private static final byte[] SALT = "a salt of Kafka's".getBytes(StandardCharsets.UTF_8);

    private static final Map<String, ConfigDef> CLIENTS = Map.of(
            "consumer", ConsumerConfig.configDef(),
            "producer", ProducerConfig.configDef(),
            "admin", AdminClientConfig.configDef());

    public static void main(String[] none) {
        Scanner lines = new Scanner(System.in, "UTF-8");
        while (lines.hasNextLine()) {
            String[] asked = lines.nextLine().split(" ", -1);
            String text = new String(Base64.getDecoder().decode(asked[2]), StandardCharsets.UTF_8);
            String result;
            try {
                result = encoded(answer(asked[0], asked[1], text));
            } catch (Exception error) {
                result = "!";
            }
            System.out.println(result);
        }
    }

    private static List<String> answer(String subject, String kind, String text) throws Exception {
        List<String> results = new ArrayList<>();
        if (subject.equals("value")) {
            ConfigDef.Type type = ConfigDef.Type.valueOf(kind);
            Object value = ConfigDef.parseType("name", text, type);
            if (value instanceof Password)
                results.add(((Password) value).value());
            else if (value instanceof List)
                for (Object item : (List<?>) value) results.add((String) item);
            else
                results.add(ConfigDef.convertToString(value, type));
        } else if (subject.equals("client")) {
            ConfigDef.ConfigKey key = CLIENTS.get(kind).configKeys().get(text);
            results.add(key.type.name());
            boolean has = key.defaultValue != ConfigDef.NO_DEFAULT_VALUE;
            results.add(has ? String.valueOf(ConfigDef.convertToString(key.defaultValue, key.type)) : "required");
            results.add(String.valueOf(key.validator));
        } else if (subject.equals("names")) {
            results.addAll(new TreeMap<>(CLIENTS.get(kind).configKeys()).keySet());
        } else if (subject.equals("properties")) {
            Properties properties = new Properties();
            properties.load(new StringReader(text));
            for (Map.Entry<Object, Object> one : new TreeMap<>(properties).entrySet()) {
                results.add((String) one.getKey());
                results.add((String) one.getValue());
            }
        } else {
            ScramFormatter formatter = new ScramFormatter(ScramMechanism.forMechanismName(kind));
            byte[] salted = formatter.saltedPassword(text, SALT, 4096);
            ClientFirstMessage first = new ClientFirstMessage(formatter.saslName(text), "nonce", Map.of());
            ServerFirstMessage server = new ServerFirstMessage("nonce", "server", SALT, 4096);
            ClientFinalMessage last = new ClientFinalMessage("n,,".getBytes(StandardCharsets.UTF_8), server.nonce());
            byte[] proof = formatter.clientProof(salted, first, server, last);
            last.proof(proof);
            results.add(new String(first.toBytes(), StandardCharsets.UTF_8));
            results.add(new String(server.toBytes(), StandardCharsets.UTF_8));
            results.add(new String(last.toBytes(), StandardCharsets.UTF_8));
            byte[] signature = formatter.serverSignature(formatter.serverKey(salted), first, server, last);
            results.add("v=" + Base64.getEncoder().encodeToString(signature));
        }
        return results;
    }

    private static String encoded(List<String> results) {
        StringBuilder line = new StringBuilder("=");
        for (String one : results)
            line.append(Base64.getEncoder().encodeToString(one.getBytes(StandardCharsets.UTF_8))).append(',');
        return line.toString();
    }
}
