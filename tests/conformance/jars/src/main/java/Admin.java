// Apache's administration commands, a line each, in one JVM: starting one a command takes seconds.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

public final class Admin {
    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            // A tab apart, since values may have blanks.
            MQAdminStartup.main0(line.split("\t"), null);
            // Some commands do not end their last line.
            output.println("\n--done--");
            output.flush();
        }
    }
}
