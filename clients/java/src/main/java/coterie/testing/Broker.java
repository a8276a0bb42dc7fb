package coterie.testing;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A broker in memory, which a test controls. */
public final class Broker extends Operations implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int OK = 200;
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url;
    private final String token;
    private final Process process;
    private final String address;

    private Broker(String url, String token, Process process, String address) {
        this.url = url;
        this.token = token;
        this.process = process;
        this.address = address == null ? bootstrapServers() : address;
    }

    /**
     * Runs {@code coterie broker}; the environment variable COTERIE names another program than coterie on the PATH. The options are
     * further ones of the command, such as --brokers 3 or --set num.partitions=6.
     */
    public static Broker start(String... options) {
        List<String> command = new ArrayList<>(List.of(System.getenv().getOrDefault("COTERIE", "coterie").split(" ")));
        command.addAll(List.of("broker", "--memory", "--control", "127.0.0.1:0"));
        if (!List.of(options).contains("--brokers")) {
            command.addAll(List.of("--listen", "127.0.0.1:0"));
        }
        command.addAll(List.of(options));
        try {
            Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            BufferedReader lines = process.inputReader();
            String url = afterPrefix(lines.readLine(), "control API on ");
            return new Broker(url, null, process, afterPrefix(lines.readLine(), "listening on "));
        } catch (IOException error) {
            throw new UncheckedIOException(
                    "coterie does not start; pip install 'coterie[http]', or name the program in COTERIE", error);
        }
    }

    /** Controls a broker that runs elsewhere, empty from now on. The token may be null. */
    public static Broker connect(String url, String token) {
        Broker broker = new Broker(url, token, null, null);
        broker.reset();
        return broker;
    }

    private static String afterPrefix(String line, String prefix) {
        if (line == null || !line.startsWith(prefix)) {
            throw new IllegalStateException("coterie broker printed " + line + ", not " + prefix);
        }
        return line.substring(prefix.length());
    }

    /** The bootstrap.servers of clients. */
    public String bootstrapAddress() {
        return address;
    }

    /** Ends the process, if {@link #start} made it. */
    @Override
    public void close() {
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    protected <T> T call(String operation, Map<String, Object> given, TypeReference<T> type) {
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + "/v1/" + operation))
                    .header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofByteArray(JSON.writeValueAsBytes(given)));
            if (token != null) {
                request.header("Authorization", "Bearer " + token);
            }
            HttpResponse<byte[]> response = http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
            JsonNode document = JSON.readTree(response.body());
            if (response.statusCode() != OK) {
                String code = document.path("code").asText(null);
                throw new ControlException(document.path("error").asText(operation), response.statusCode(), code);
            }
            return JSON.convertValue(document.get("result"), type);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", interrupted);
        }
    }
}
