package coterie.testing;

import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestWatcher;

/**
 * JUnit 5: {@code @ExtendWith(CoterieExtension.class)} gives each test a parameter {@link Broker}, empty, out of one process for the
 * whole run. A test that fails prints the journal of its groups.
 */
public final class CoterieExtension implements BeforeEachCallback, ParameterResolver, TestWatcher {
    private static Shared shared(ExtensionContext context) {
        return context.getRoot()
                .getStore(Namespace.create(CoterieExtension.class))
                .getOrComputeIfAbsent(Shared.class, key -> new Shared(Broker.start()), Shared.class);
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        shared(context).broker().reset();
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Broker.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return shared(context).broker();
    }

    @Override
    public void testFailed(ExtensionContext context, Throwable cause) {
        System.err.println("coterie's journal:");
        shared(context).broker().story().forEach(System.err::println);
    }

    private record Shared(Broker broker) implements ExtensionContext.Store.CloseableResource {
        @Override
        public void close() {
            broker.close();
        }
    }
}
