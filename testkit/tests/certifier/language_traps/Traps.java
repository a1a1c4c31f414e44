import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;

/** What docs/tutorials/own-wallet.md says of Java. */
final class Traps {
    public static void main(String[] none) {
        System.out.println(new BigDecimal("500").equals(new BigDecimal("500.0")));
        System.out.println(new String("a") == "a");
        System.out.println(Long.MAX_VALUE + 1 < 0);
        System.out.println(new String(new byte[] {'a', (byte) 0xff}, StandardCharsets.UTF_8).equals("a\ufffd"));
    }
}
