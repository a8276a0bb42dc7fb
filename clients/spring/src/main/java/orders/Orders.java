package orders;

import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;

/** The application under test: adds up the orders of a topic. */
@SpringBootApplication
public class Orders {
    private final AtomicInteger sum = new AtomicInteger();

    public static void main(String[] arguments) {
        SpringApplication.run(Orders.class, arguments);
    }

    @KafkaListener(topics = "orders", groupId = "billing")
    void add(String order) {
        sum.addAndGet(Integer.parseInt(order));
    }

    public int sum() {
        return sum.get();
    }
}
