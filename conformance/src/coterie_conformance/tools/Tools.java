// Runs Apache Kafka's command-line tools in one JVM, several at a time. Each line on stdin is one command:
//   ID LIMIT_MS CLASS STDIN ARGUMENT...    (all but ID, LIMIT_MS and CLASS in base64, "-" where empty)
// and each line on stdout the end of one: ID EXIT_CODE OUT ERR (both in base64; EXIT_CODE is "-" past the limit).
// A command's threads are those of its thread group: what they print, read and exit with is the command's.
import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

public class Tools {
    static final PrintStream ANSWERS = System.out;
    static final long UNWIND_MS = 10_000;
    static final URL[] JARS = jars();

    /** Thrown after the command's exit, so that its clients are closed; what is printed from then on is dropped. */
    static class Exited extends Error {}

    static class Command extends ThreadGroup {
        final String[] words;
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final InputStream in;
        final List<Runnable> hooks = new ArrayList<>();
        final CountDownLatch ended = new CountDownLatch(1);
        private String exitCode = null;

        Command(String line) {
            super("command " + line.split(" ")[0]);
            words = line.split(" ");
            in = new ByteArrayInputStream(decoded(words[3]));
        }

        static Command current() {
            for (ThreadGroup g = Thread.currentThread().getThreadGroup(); g != null; g = g.getParent())
                if (g instanceof Command command) return command;
            return null;
        }

        synchronized void write(ByteArrayOutputStream to, byte[] bytes, int offset, int length) {
            if (exitCode == null) to.write(bytes, offset, length);
        }

        /** The first exit counts. */
        synchronized void end(String code) {
            if (exitCode == null) exitCode = code;
            ended.countDown();
        }

        void run() throws InterruptedException {
            Thread main = new Thread(this, this::main, "main");
            main.start();
            boolean inTime = ended.await(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
            end("-");
            if (!inTime) {
                for (Runnable hook : hooks) new Thread(this, hook).start();
                main.interrupt();
            }
            main.join(UNWIND_MS);
            synchronized (ANSWERS) {
                ANSWERS.println(String.join(" ", words[0], exitCode, encoded(out), encoded(err)));
                ANSWERS.flush();
            }
        }

        /** As the JVM of a tool does: it ends with the last thread that is no daemon. */
        void joinOthers() throws InterruptedException {
            Thread[] threads = new Thread[activeCount() + 16];
            int count = enumerate(threads);
            for (int i = 0; i < count; i++)
                if (threads[i] != Thread.currentThread() && !threads[i].isDaemon()) threads[i].join();
        }

        void main() {
            ToolsLoader loader = new ToolsLoader();
            Thread.currentThread().setContextClassLoader(loader);
            List<String> arguments = new ArrayList<>();
            for (int i = 4; i < words.length; i++)
                arguments.add(new String(decoded(words[i]), StandardCharsets.UTF_8));
            try {
                loader.loadClass(words[2]).getMethod("main", String[].class)
                    .invoke(null, (Object) arguments.toArray(new String[0]));
                joinOthers();
                end("0");
            } catch (InvocationTargetException thrown) {
                if (!(thrown.getCause() instanceof Exited)) {
                    System.err.print("Exception in thread \"main\" ");
                    thrown.getCause().printStackTrace();
                }
                end("1");
            } catch (InterruptedException pastTheLimit) {
                return;
            } catch (ReflectiveOperationException unknown) {
                System.err.println(unknown);
                end("1");
            }
        }
    }

    /** Each command has classes of the tools of its own: the console consumer counts its messages in a static field. */
    static class ToolsLoader extends URLClassLoader {
        static final List<String> PACKAGES = List.of("org.apache.kafka.tools.", "kafka.tools.", "kafka.admin.");

        ToolsLoader() {
            super(JARS, Tools.class.getClassLoader());
        }

        @Override protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (PACKAGES.stream().noneMatch(name::startsWith)) return super.loadClass(name, resolve);
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded == null ? findClass(name) : loaded;
            }
        }
    }

    static class Output extends OutputStream {
        final boolean isErr;

        Output(boolean isErr) {
            this.isErr = isErr;
        }

        @Override public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override public void write(byte[] bytes, int offset, int length) {
            Command command = Command.current();
            if (command != null) command.write(isErr ? command.err : command.out, bytes, offset, length);
        }
    }

    static class Input extends InputStream {
        @Override public int read() throws IOException {
            return Command.current().in.read();
        }

        @Override public int read(byte[] bytes, int offset, int length) throws IOException {
            return Command.current().in.read(bytes, offset, length);
        }
    }

    static URL[] jars() {
        return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator)).map(path -> {
            try {
                return new File(path).toURI().toURL();
            } catch (MalformedURLException e) {
                throw new IllegalArgumentException(e);
            }
        }).toArray(URL[]::new);
    }

    static byte[] decoded(String word) {
        return word.equals("-") ? new byte[0] : Base64.getDecoder().decode(word);
    }

    static String encoded(ByteArrayOutputStream bytes) {
        return bytes.size() == 0 ? "-" : Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    static void exit(int code) {
        Command.current().end(Integer.toString(code));
        throw new Exited();
    }

    /** Kafka's class Exit, which is in another package from 4.4 on. */
    static Class<?> exits() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException before44) {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        }
    }

    /** Calls that setter of Exit with what does this. */
    static void set(Class<?> exits, String setter, Consumer<Object[]> what) throws ReflectiveOperationException {
        for (Method method : exits.getMethods()) {
            if (!method.getName().equals(setter)) continue;
            Class<?> kind = method.getParameterTypes()[0];
            method.invoke(null, Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, (proxy, called, arguments) -> {
                what.accept(arguments);
                return null;
            }));
        }
    }

    public static void main(String[] none) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(new Output(false), true));
        System.setErr(new PrintStream(new Output(true), true));
        System.setIn(new Input());
        Class<?> exits = exits();
        set(exits, "setExitProcedure", arguments -> exit((int) arguments[0]));
        set(exits, "setHaltProcedure", arguments -> exit((int) arguments[0]));
        set(exits, "setShutdownHookAdder", arguments -> Command.current().hooks.add((Runnable) arguments[1]));
        for (String line; (line = commands.readLine()) != null; ) {
            Command command = new Command(line);
            new Thread(() -> {
                try {
                    command.run();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }).start();
        }
        Runtime.getRuntime().halt(0);
    }
}
