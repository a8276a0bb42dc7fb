package coterie.testing;

/** A refusal of the control API. */
public final class ControlException extends RuntimeException {
    private static final int GATEWAY_TIMEOUT = 504;
    private final int status;
    private final String code;

    ControlException(String message, int status, String code) {
        super(message);
        this.status = status;
        this.code = code;
    }

    /** Kafka's error code by its name, where the broker refused; else null. */
    public String code() {
        return code;
    }

    /** Whether what was waited for did not come in time. */
    public boolean isTimeout() {
        return status == GATEWAY_TIMEOUT;
    }
}
